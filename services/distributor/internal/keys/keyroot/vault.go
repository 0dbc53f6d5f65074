// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package keyroot

import (
	"bytes"
	"context"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"
)

const (
	vaultTimeout = 15 * time.Second
	// maxVaultAnswer bounds the answer to one call. A wrapped key has some 150 bytes.
	maxVaultAnswer = 64 << 10
	// maxVaultToken bounds the file of a token.
	maxVaultToken = 16 << 10
)

// VaultParams select which key of Vault or OpenBao is the root.
type VaultParams struct {
	// URL of the transit key, such as https://vault.example:8200/v1/transit/keys/leat. A namespace is
	// part of the path. It must be https, except on this machine.
	URL string
	// TokenFile holds a token that may use encrypt and decrypt of the key. The file is read for each
	// call, so that an agent can renew it. Exclusive with Role.
	TokenFile string
	// Role logs in with this role of the Kubernetes auth method. Exclusive with TokenFile.
	Role string
	// AuthMount is the path of the Kubernetes auth method. Empty: kubernetes.
	AuthMount string
	// ServiceAccountTokenFile holds the token of the pod. Empty: where Kubernetes puts it.
	ServiceAccountTokenFile string
	// CAPEM are the certificates to trust. Empty: the system's.
	CAPEM []byte
}

// Vault is a root that is a key of the transit engine of Vault or OpenBao. The key never leaves it.
type Vault struct {
	params      VaultParams
	api         string // such as https://vault.example:8200/v1
	mount, name string
	client      *http.Client
}

var _ Root = (*Vault)(nil)

const podToken = "/var/run/secrets/kubernetes.io/serviceaccount/token"

// vaultPath is the path of a transit key.
var vaultPath = regexp.MustCompile(`^/v1/((?:[A-Za-z0-9._-]+/)*[A-Za-z0-9._-]+)/keys/([A-Za-z0-9._-]+)$`)

// NewVault returns the root at a URL. It calls nothing yet.
func NewVault(p VaultParams) (*Vault, error) {
	u, err := url.Parse(p.URL)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("want a URL such as https://vault.example:8200/v1/transit/keys/leat")
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())) {
		return nil, fmt.Errorf("got %s, want https://: keys go over this connection", u.Scheme)
	}
	parts := vaultPath.FindStringSubmatch(u.EscapedPath())
	if parts == nil || strings.Contains(u.Path, "..") {
		return nil, fmt.Errorf("got path %q, want /v1/MOUNT/keys/NAME", u.Path)
	}
	if (p.TokenFile == "") == (p.Role == "") {
		return nil, errors.New("want either the file of a token or a role")
	}
	if p.AuthMount == "" {
		p.AuthMount = "kubernetes"
	}
	if p.ServiceAccountTokenFile == "" {
		p.ServiceAccountTokenFile = podToken
	}
	trust := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(p.CAPEM) > 0 {
		trust.RootCAs = x509.NewCertPool()
		if !trust.RootCAs.AppendCertsFromPEM(p.CAPEM) {
			return nil, errors.New("the CA file contains no certificate")
		}
	}
	return &Vault{
		params: p, api: u.Scheme + "://" + u.Host + "/v1", mount: parts[1], name: parts[2],
		client: &http.Client{
			Timeout:   vaultTimeout,
			Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: trust, ForceAttemptHTTP2: true},
			// A redirect would carry the token and the key elsewhere.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Name implements [Root]. The host is not part of it: a Vault may move.
func (v *Vault) Name() string { return "vault/" + v.mount + "/" + v.name }

// Wrap implements [Root].
func (v *Vault) Wrap(ctx context.Context, key []byte, place string) ([]byte, error) {
	var answer struct {
		Data struct {
			Ciphertext string `json:"ciphertext"`
		} `json:"data"`
	}
	if err := v.transit(ctx, "encrypt", map[string]string{"plaintext": base64.StdEncoding.EncodeToString(placed(key, place))}, &answer); err != nil {
		return nil, fmt.Errorf("wrap by %s: %w", v.Name(), err)
	}
	if !strings.HasPrefix(answer.Data.Ciphertext, "vault:v") {
		return nil, fmt.Errorf("wrap by %s: the answer contains no wrapped key", v.Name())
	}
	return []byte(answer.Data.Ciphertext), nil
}

// Unwrap implements [Root].
func (v *Vault) Unwrap(ctx context.Context, wrapped []byte, place string) ([]byte, error) {
	if !bytes.HasPrefix(wrapped, []byte("vault:v")) {
		return nil, fmt.Errorf("unwrap by %s: %w", v.Name(), ErrRefused)
	}
	var answer struct {
		Data struct {
			Plaintext string `json:"plaintext"`
		} `json:"data"`
	}
	if err := v.transit(ctx, "decrypt", map[string]string{"ciphertext": string(wrapped)}, &answer); err != nil {
		return nil, fmt.Errorf("unwrap by %s: %w", v.Name(), err)
	}
	content, err := base64.StdEncoding.DecodeString(answer.Data.Plaintext)
	if err != nil {
		return nil, fmt.Errorf("unwrap by %s: %w", v.Name(), ErrRefused)
	}
	key, ok := keyAt(content, place)
	if !ok {
		return nil, fmt.Errorf("unwrap by %s: %w: it was wrapped for another place", v.Name(), ErrRefused)
	}
	return key, nil
}

// placed puts the place before the key: not every version of the engine authenticates a context.
func placed(key []byte, place string) []byte {
	content := binary.BigEndian.AppendUint32(nil, uint32(len(place)))
	return append(append(content, place...), key...)
}

// keyAt returns the key of placed if the place is the same.
func keyAt(content []byte, place string) ([]byte, bool) {
	head := placed(nil, place)
	if len(content) <= len(head) || subtle.ConstantTimeCompare(content[:len(head)], head) != 1 {
		return nil, false
	}
	return content[len(head):], true
}

// transit calls the engine with a token of the caller's.
func (v *Vault) transit(ctx context.Context, verb string, body, answer any) error {
	token, err := v.token(ctx)
	if err != nil {
		return err
	}
	return v.call(ctx, "/"+v.mount+"/"+verb+"/"+v.name, token, body, answer)
}

// token reads the token, or logs in for one.
func (v *Vault) token(ctx context.Context) (string, error) {
	if v.params.Role == "" {
		return readToken(v.params.TokenFile)
	}
	proof, err := readToken(v.params.ServiceAccountTokenFile)
	if err != nil {
		return "", err
	}
	var answer struct {
		Auth struct {
			ClientToken string `json:"client_token"`
		} `json:"auth"`
	}
	login := map[string]string{"role": v.params.Role, "jwt": proof}
	if err := v.call(ctx, "/auth/"+v.params.AuthMount+"/login", "", login, &answer); err != nil {
		return "", fmt.Errorf("log in with role %s: %w", v.params.Role, err)
	}
	if answer.Auth.ClientToken == "" {
		return "", fmt.Errorf("log in with role %s: the answer contains no token", v.params.Role)
	}
	return answer.Auth.ClientToken, nil
}

// readToken reads a token. A file that is missing may appear: an agent writes it.
func readToken(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, maxVaultToken+1))
	token := strings.TrimSpace(string(content))
	if err != nil || token == "" || len(content) > maxVaultToken || strings.ContainsAny(token, "\r\n") {
		return "", fmt.Errorf("%w: %s does not contain one token", ErrUnavailable, path)
	}
	return token, nil
}

// call makes one call. A refused token counts as unavailable: the agent that renews it may be
// late. The error contains neither the request nor the answer.
func (v *Vault) call(ctx context.Context, path, token string, body, answer any) error {
	content, err := json.Marshal(body)
	if err != nil {
		return errors.New("encode request")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, v.api+path, bytes.NewReader(content))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Vault-Request", "true")
	if token != "" {
		request.Header.Set("X-Vault-Token", token)
	}
	response, err := v.client.Do(request)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	defer func() { _ = response.Body.Close() }()
	switch code := response.StatusCode; {
	case code == http.StatusForbidden || code == http.StatusTooManyRequests || code >= http.StatusInternalServerError:
		return fmt.Errorf("%w: it answered %s", ErrUnavailable, response.Status)
	case code == http.StatusBadRequest:
		return fmt.Errorf("%w: it answered %s", ErrRefused, response.Status)
	case code != http.StatusOK:
		return fmt.Errorf("it answered %s; do the key and its engine exist", response.Status)
	}
	decoder := json.NewDecoder(io.LimitReader(response.Body, maxVaultAnswer))
	if err := decoder.Decode(answer); err != nil {
		return fmt.Errorf("%w: its answer is not readable", ErrUnavailable)
	}
	return nil
}
