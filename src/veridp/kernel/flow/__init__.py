"""Ways through a mechanism that need not be listed one by one: branches that choose an entry, and loops."""
