"""Starting work: notebooks through papermill, ranks of a process group, nodes."""
