"""The oracles of local privacy, a module for each family. They know nothing of attacks, files or each other's insides."""
