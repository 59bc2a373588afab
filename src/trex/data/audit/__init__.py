"""The gates over anyone's set of problems with answers: programs are run, and their models solved by two solvers."""
