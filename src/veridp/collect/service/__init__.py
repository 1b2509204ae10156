"""The service that collects verifiable reports over HTTP: the `store`, its `commit_queue`, a `verifier_pool`.

Processes are stateless: everything that matters is in the database, so any number of them serve one collection.
"""
