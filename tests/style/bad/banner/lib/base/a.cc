// BAD ==========
int a;
// BAD ----------------
// A range of a--b is fine, and so is a table: | --- | --- |
