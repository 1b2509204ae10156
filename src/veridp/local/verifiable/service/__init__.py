"""The service that collects verifiable reports over HTTP: `store` keeps, `ledger` writes, `judges` verify.

Processes are stateless: everything that matters is in the database, so any number of them serve one collection.
"""
