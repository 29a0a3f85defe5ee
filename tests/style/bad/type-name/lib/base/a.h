// A header.
#pragma once
class StringUtils {  // BAD
};
class JobManager final : public Job {  // BAD
};
struct Base;  // BAD
class FileHelper  // BAD
    : public File {
};
class Database {
};
class ManagerName {
};
