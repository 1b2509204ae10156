"""Whether a function keeps state from one run to the next: what it can reach, and what that holds."""
