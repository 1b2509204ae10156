"""`python -m veridp`: the command line."""

from veridp.cli import main

main()
