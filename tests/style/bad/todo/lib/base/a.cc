// TODO(soon): finish this. BAD
// TODO(perf): a hash would be quicker.
// TODO: one day. BAD
// FIXME: BAD
