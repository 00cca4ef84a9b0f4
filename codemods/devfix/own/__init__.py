"""Codemods that are not devfix's own: rules of others, LibCST commands, Bowler scripts, and lists of codemods.

Loading one runs its code. That happens for what a command line names, for what the user's own settings name,
and for packages that are installed beside devfix; never for what an analysed repository says.
"""
