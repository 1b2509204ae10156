"""Mathematics that knows nothing of mechanisms: rational algebra, exact linear programs, quadrature, balls, losses."""
