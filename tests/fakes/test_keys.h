// Ed25519 keys for tests, made once with OpenSSL. They protect nothing. Plain constants.
#pragma once

namespace paceline::fakes {

inline constexpr char kTestKey[] =
    "-----BEGIN PRIVATE KEY-----\n"
    "MC4CAQAwBQYDK2VwBCIEIJlZ6UN3Fhy+tbxc0RvPbv1t//eCcrE4bPmC6MWnSNB4\n"
    "-----END PRIVATE KEY-----\n";
inline constexpr char kTestPublicKey[] =
    "-----BEGIN PUBLIC KEY-----\n"
    "MCowBQYDK2VwAyEAPPGwFkPoWGBbLX2bj7XUxjgrKpWnaaCyCUUa0iU4Hk4=\n"
    "-----END PUBLIC KEY-----\n";
inline constexpr char kTestKeyId[] = "b07913da3ca31e40";

inline constexpr char kOtherTestKey[] =
    "-----BEGIN PRIVATE KEY-----\n"
    "MC4CAQAwBQYDK2VwBCIEIOOo7t0klsBU35yK9vNOKQD7o1EjinPNWRTVg9rdZLyA\n"
    "-----END PRIVATE KEY-----\n";
inline constexpr char kOtherTestPublicKey[] =
    "-----BEGIN PUBLIC KEY-----\n"
    "MCowBQYDK2VwAyEAIK5cVd4bcwZ2cMwdgIUnRTPS32Qo8UMXgGoYTM5FW8o=\n"
    "-----END PUBLIC KEY-----\n";

// What is not taken: a key with a passphrase, one of another kind.
inline constexpr char kEncryptedTestKey[] =
    "-----BEGIN ENCRYPTED PRIVATE KEY-----\n"
    "MIGbMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAgzGhSj0gJ+1AICCAAw\n"
    "DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEECrzEt0q+Djqq7RmbRneWVYEQEgZ\n"
    "zjvVoS3m5V1ofDOfvws8Nxh3XebOCJ1BayR34n3i8z12HNjENmyVkprV16q5gJEL\n"
    "grORAmDSzH2qKfBAeSo=\n"
    "-----END ENCRYPTED PRIVATE KEY-----\n";
inline constexpr char kRsaPublicKey[] =
    "-----BEGIN PUBLIC KEY-----\n"
    "MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQCcsntRoS5xaJEYB37VTaRleF+d\n"
    "CZ7z5v8ZHSNI3/WmmBmvDera/ucrYnY4j43BjJNy4Mo1dUPSsTlDce80aJH5GZWD\n"
    "C943cQGhKjtxwC9O565pxxqRiPOQ/ixRX7lZxtIxeGRXAvSf2u7PMRV28E5LUDJB\n"
    "Z/ad8fh/SXrnWR8M/QIDAQAB\n"
    "-----END PUBLIC KEY-----\n";

}  // namespace paceline::fakes
