"""One HTML file with tables and plots, and the JSON it was made from."""
