"""Claims in the notions that people state, and whether the audit judges them rightly."""
