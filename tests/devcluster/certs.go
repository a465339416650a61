package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// credentials are the files below <state dir>/pki and what our own client needs of them.
type credentials struct {
	caCert                   string
	servingCert, servingKey  string // of etcd and the API server
	clientCert, clientKey    string // cluster administrator
	tokenPublicKey, tokenKey string // service-account tokens

	caPEM, clientCertPEM, clientKeyPEM []byte
	tls                                *tls.Config
}

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// newCredentials makes everything anew: one CA, a serving and a client certificate, and
// the RSA pair for service-account tokens.
func newCredentials(dir string) (*credentials, error) {
	pki := filepath.Join(dir, "pki")
	if err := os.MkdirAll(pki, 0o700); err != nil {
		return nil, err
	}
	file := func(name string) string { return filepath.Join(pki, name) }
	c := &credentials{
		caCert:      file("ca.crt"),
		servingCert: file("serving.crt"), servingKey: file("serving.key"),
		clientCert: file("client.crt"), clientKey: file("client.key"),
		tokenPublicKey: file("token.pub"), tokenKey: file("token.key"),
	}

	caTemplate := template("devcluster-ca")
	caTemplate.IsCA, caTemplate.BasicConstraintsValid = true, true
	caTemplate.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	caPEM, _, ca, err := issue(caTemplate, nil)
	if err != nil {
		return nil, err
	}

	serving := template("devcluster-server")
	serving.DNSNames = []string{"localhost"}
	serving.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 0, 0, 1)}
	// etcd also uses its serving certificate to call itself.
	serving.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	servingPEM, servingKeyPEM, _, err := issue(serving, ca)
	if err != nil {
		return nil, err
	}

	client := template("devcluster-admin")
	client.Subject.Organization = []string{"system:masters"}
	client.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	clientPEM, clientKeyPEM, _, err := issue(client, ca)
	if err != nil {
		return nil, err
	}

	tokenPEM, tokenPublicPEM, err := tokenKeys()
	if err != nil {
		return nil, err
	}
	for path, content := range map[string][]byte{
		c.caCert:      caPEM,
		c.servingCert: servingPEM, c.servingKey: servingKeyPEM,
		c.clientCert: clientPEM, c.clientKey: clientKeyPEM,
		c.tokenPublicKey: tokenPublicPEM, c.tokenKey: tokenPEM,
	} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return nil, err
		}
	}

	pair, err := tls.X509KeyPair(clientPEM, clientKeyPEM)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	c.tls = &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}
	c.caPEM, c.clientCertPEM, c.clientKeyPEM = caPEM, clientPEM, clientKeyPEM
	return c, nil
}

// template is a certificate that is valid from an hour ago (clocks differ) for ten years.
func template(commonName string) *x509.Certificate {
	return &x509.Certificate{
		Subject:   pkix.Name{CommonName: commonName},
		NotBefore: time.Now().Add(-time.Hour),
		NotAfter:  time.Now().AddDate(10, 0, 0),
		KeyUsage:  x509.KeyUsageDigitalSignature,
	}
}

// issue makes a key and has its certificate signed by ca, or by itself when ca is nil.
func issue(tmpl *x509.Certificate, ca *authority) (certPEM, keyPEM []byte, issued *authority, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, nil, err
	}
	if ca == nil {
		ca = &authority{tmpl, key}
	}
	if tmpl.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return nil, nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, ca.cert, key.Public(), ca.key)
	if err != nil {
		return nil, nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, nil, err
	}
	return block("CERTIFICATE", der), block("PRIVATE KEY", keyDER), &authority{cert, key}, nil
}

func tokenKeys() (privatePEM, publicPEM []byte, err error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, nil, err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, nil, err
	}
	return block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key)), block("PUBLIC KEY", public), nil
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// client asks server with these credentials.
func (c *credentials) client(server string) *apiClient {
	return &apiClient{server, &http.Client{Transport: &http.Transport{TLSClientConfig: c.tls.Clone()}}}
}

// kubeconfig has the certificates inside, so that one file is all a consumer needs.
func (c *credentials) kubeconfig(server string) []byte {
	text := base64.StdEncoding.EncodeToString
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters:
- name: devcluster
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: admin
  user:
    client-certificate-data: %s
    client-key-data: %s
contexts:
- name: devcluster
  context:
    cluster: devcluster
    user: admin
current-context: devcluster
`, server, text(c.caPEM), text(c.clientCertPEM), text(c.clientKeyPEM))
}
