"""How results are shown to people. Imports results, never an engine's insides."""
