"""Every figure and table of the sources beside what veridp computes: `make reproduce`, or `python -m reproduction`.

`artefact` has the words; one module for each source measures and shows its figures and tables, by the public interface
of veridp alone; `registry` lists them all; `steps` measures what is not measured yet; `page` and `plots` draw.
"""
