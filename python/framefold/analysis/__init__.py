"""Analyses: UDFs with parameters chosen, whose results come with titles and pictures."""
