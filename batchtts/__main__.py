"""`python -m batchtts` is the same as `batchtts`."""

from batchtts.cli import main

main()
