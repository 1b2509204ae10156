"""Runs the migrations on the connection that `store.upgrade` gives."""

from __future__ import annotations

from alembic import context

from veridp.collect.service.schema import metadata

if hasattr(context, "config"):  # it has one only while Alembic runs this file
    context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
    with context.begin_transaction():
        context.run_migrations()
