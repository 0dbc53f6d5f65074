// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package upstream_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/secret"
)

func secretive() upstream.Definition {
	return upstream.Definition{
		URL: "https://git.invalid/demo", ProxyURL: "socks5://u:sesame@proxy", WebhookSecret: "sesame",
		Credential: upstream.Credential{
			Method: upstream.MethodBasic, Password: "sesame", Token: "sesame", PrivateKey: "sesame", Passphrase: "sesame", ClientKeyPEM: "sesame",
			DockerConfig: "sesame",
		},
	}
}

func TestSecretsDoNotPrint(t *testing.T) {
	t.Parallel()
	d := secretive()
	var logged strings.Builder
	slog.New(slog.NewJSONHandler(&logged, nil)).InfoContext(t.Context(), "x", slog.Any("d", d), slog.Any("c", d.Credential), slog.Any("p", &d))
	encoded, err := json.Marshal([]any{d, d.Credential})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprint(d, &d), fmt.Sprintf("%+v %#v %x %q", d, d, d.Credential.Password, d.WebhookSecret), logged.String(), string(encoded)} {
		if strings.Contains(text, "sesame") || strings.Contains(text, fmt.Sprintf("%x", "sesame")) {
			t.Errorf("got %q, want no secret in it", text)
		}
	}
}

func TestPublicHoldsNoSecret(t *testing.T) {
	t.Parallel()
	d := secretive()
	for name, text := range d.Secrets() {
		if text == "" {
			t.Errorf("%s is empty; the test has to carry every secret", name)
		}
	}
	want := upstream.Definition{URL: d.URL, ProxyURL: "socks5://u:xxxxx@proxy"}
	if got := d.Public(); got != want || !got.HasMaskedProxy() || d.HasMaskedProxy() {
		t.Errorf("got %+v with the proxy %q, want it masked and nothing else secret", got, got.ProxyURL.Reveal())
	}
	d.ProxyURL = secret.Text("http://u:p%zz@h")
	if got := d.Public().ProxyURL; got != "" {
		t.Errorf("got %q of what is not a URL, want nothing", got.Reveal())
	}
}
