"""Array formats: which one each UDF gets, how tiles are turned into it, and on which device."""
