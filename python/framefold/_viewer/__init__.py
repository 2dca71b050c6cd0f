"""The viewer in notebooks: ``view``, its widget, and functions of the session as channels."""
