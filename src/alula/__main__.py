"""`python -m alula`."""

from alula.cli.main import main

main()
