"""The engines, a folder for each question. None imports another, but searchers may ask `exact` as a judge."""
