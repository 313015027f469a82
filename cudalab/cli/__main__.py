from cudalab.cli import main

main()
