"""Certificates of couplings, also of those that give up events and pay δ."""
