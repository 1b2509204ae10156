"""Running the service under uvicorn, in one process or several."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import uvicorn

from veridp.collect.service.database import Database
from veridp.collect.service.metrics import SHARED_FOLDER
from veridp.collect.service.settings import ServiceSettings


def run(
    settings: ServiceSettings,
    host: str,
    port: int,
    processes: int = 1,
    *,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    proxy: str | None = None,
    access_log: bool = False,
) -> None:
    """Serve until stopped.

    The database is migrated before any process serves; several processes share their metrics through a folder.
    """
    Database.open(settings.database).close()
    settings.to_environment()
    with tempfile.TemporaryDirectory(prefix="veridp-metrics-") as folder:
        if settings.several:
            os.environ[SHARED_FOLDER] = folder
        uvicorn.run(
            "veridp.collect.service.app:from_environment",
            factory=True,
            host=host,
            port=port,
            workers=processes,
            ssl_certfile=None if tls_cert is None else str(tls_cert),
            ssl_keyfile=None if tls_key is None else str(tls_key),
            proxy_headers=proxy is not None,
            forwarded_allow_ips=proxy,
            access_log=access_log,
            log_level="info" if access_log else "warning",
            server_header=False,
            timeout_keep_alive=30,
        )
