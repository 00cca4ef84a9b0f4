"""Devices that nobody names: torch's default device, and the defaults of other libraries' constructors."""
