"""`python -m varsdoc`."""

from varsdoc.cli import main

main()
