"""The service that collects verifiable reports over HTTP: the `store`, and work in the `background`.

Processes are stateless: everything that matters is in the database, so any number of them serve one collection.
"""
