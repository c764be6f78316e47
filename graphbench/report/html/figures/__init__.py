"""The pictures of a page: plain values that plotly draws in the browser. Pure."""
