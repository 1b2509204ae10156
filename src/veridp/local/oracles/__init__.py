"""The oracles of local privacy, a module for each family. They know nothing of attacks or files."""
