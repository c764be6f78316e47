"""What Dynamo captured, as records: graphs, inputs, ambient state, breaks, gap ops."""
