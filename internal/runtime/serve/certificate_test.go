// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// writePair writes a certificate with this serial number, as of now.
func writePair(t *testing.T, certFile, keyFile string, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("generate key: %v", err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Duration(serial) * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatalf("create certificate: %v", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatalf("encode key: %v", err)
	}
	for path, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: keyDER},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatalf("write: %v", err)
		}
		if err := os.Chtimes(path, time.Now(), time.Now()); err != nil {
			t.Fatalf("set time: %v", err)
		}
	}
}

func TestCertificateFollowsTheFiles(t *testing.T) {
	t.Parallel()
	certFile, keyFile := filepath.Join(t.TempDir(), "crt"), filepath.Join(t.TempDir(), "key")
	synctest.Test(t, func(t *testing.T) {
		writePair(t, certFile, keyFile, 1)
		certificates, err := loadCertificates(certFile, keyFile)
		if err != nil {
			t.Fatalf("load: %v", err)
		}
		assertSerial := func(when string, want int64) {
			t.Helper()
			got, err := certificates.get(nil)
			if err != nil || got.Leaf.SerialNumber.Int64() != want {
				t.Errorf("%s: got serial %v, %v, want %d", when, got.Leaf.SerialNumber, err, want)
			}
		}
		reader := sdkmetric.NewManualReader()
		if err := certificates.observe(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test")); err != nil {
			t.Fatal(err)
		}
		assertRemaining := func(want time.Duration) {
			t.Helper()
			var all metricdata.ResourceMetrics
			if err := reader.Collect(t.Context(), &all); err != nil {
				t.Fatal(err)
			}
			m := all.ScopeMetrics[0].Metrics[0]
			gauge, _ := m.Data.(metricdata.Gauge[int64])
			if got := gauge.DataPoints[0].Value; m.Name != "leat.serve.certificate.remaining" || got != int64(want.Seconds()) {
				t.Errorf("%s: got %d s, want %s", m.Name, got, want)
			}
		}
		assertRemaining(time.Hour)
		assertSerial("at first", 1)
		<-time.After(time.Second)
		writePair(t, certFile, keyFile, 2)
		assertSerial("renewed, looked at just now", 1)
		<-time.After(certificateMaxAge)
		assertRemaining(2*time.Hour - certificateMaxAge) // before anybody connects
		assertSerial("renewed", 2)
		if err := os.WriteFile(keyFile, []byte("half writ"), 0o600); err != nil {
			t.Fatalf("write: %v", err)
		}
		<-time.After(certificateMaxAge)
		assertSerial("half replaced", 2)
		if err := os.Remove(keyFile); err != nil {
			t.Fatalf("remove: %v", err)
		}
		<-time.After(certificateMaxAge)
		assertSerial("removed", 2)
		<-time.After(2 * time.Hour)
		assertRemaining(-3 * certificateMaxAge)
	})
}
