"""The sample documents of `varsdoc demo`. Everything in them is invented: no such company, town or person is meant."""
