# Sourced.
function f { :; }
