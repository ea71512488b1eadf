//! Authorities and certificates for tests.
#![allow(unreachable_pub, reason = "a module of tests")]

use std::path::Path;

use kgate_net::Security;
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

pub struct Authority {
    name: &'static str,
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

impl Authority {
    pub fn new(name: &'static str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let certificate = params.self_signed(&key).unwrap().pem();
        Self { name, issuer: Issuer::new(params, key), certificate }
    }

    /// Writes the files of a certificate with that name.
    pub fn files(&self, folder: &Path, name: &str) -> Security {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let [chain, private, ca] =
            ["pem", "key", "ca"].map(|kind| folder.join(format!("{}-{name}.{kind}", self.name)));
        std::fs::write(&chain, certificate.pem()).unwrap();
        std::fs::write(&private, key.serialize_pem()).unwrap();
        std::fs::write(&ca, &self.certificate).unwrap();
        Security::Tls { chain, key: private, ca }
    }
}
