"""What `graphbench doctor` looks at: one probe per thing that must fit, each with what was found and how to mend it."""
