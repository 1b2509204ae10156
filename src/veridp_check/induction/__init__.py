"""Certificates for every size."""
