// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package control is the adapter to the hub: the agent's identity, the plan, bundles,
// configurations and reports.
//
// It promises:
//
//   - The agent's private key never leaves its data folder and the keep.
//   - A plan never moves backwards, and an unreadable one is ignored in favour of the last good
//     one.
//   - A bundle is used only after its bytes have matched its digest.
//   - The hub receives the latest state of every service, and no report of an earlier process
//     replaces it.
//   - Secrets are on disk only sealed, and no longer than the plan needs them.
//
// When the hub is unreachable, all of this continues with the stored copies. Each type has one lock
// of its own, and none is held during a call to the hub or another type of the package. Calls that
// several callers want are shared: such a call has its own timeout and outlives the caller that
// began it.
package control

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"connectrpc.com/connect"

	distributorv1 "github.com/leatdev/leat/gen/go/leat/distributor/v1"
	"github.com/leatdev/leat/gen/go/leat/distributor/v1/distributorv1connect"
	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/kit/backoff"
	"github.com/leatdev/leat/internal/kit/flight"
	"github.com/leatdev/leat/internal/kit/wake"
	"github.com/leatdev/leat/internal/runtime/app"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

const (
	keyFile      = "agent.key"
	identityFile = "identity.json"

	// callTimeout bounds every unary call to the hub.
	callTimeout = 30 * time.Second
	// rejectedPause is the minimum time between two attempts of an agent whose key the hub does not
	// accept.
	rejectedPause = time.Minute
	// renewJitter spreads the renewals of agents that received their tokens at the same time, after
	// an outage of the hub.
	renewJitter = 0.15
)

// errNotEnrolled means that the agent has no identity and cannot enrol.
var errNotEnrolled = errors.New("the agent is not enrolled; give it a join token (leat cluster create prints one)")

// IdentityParams are the settings and collaborators of OpenIdentity.
type IdentityParams struct {
	// Dir is the folder of key and identity.
	Dir string
	// JoinToken enrols the agent if it has no identity, or the hub rejects its key. Empty: it
	// cannot enrol.
	JoinToken string
	// ClusterName is the name that the agent proposes for its cluster with a bootstrap token. Empty:
	// the hub makes one.
	ClusterName string
	// KubernetesUID returns the uid of the cluster, the uid of its namespace kube-system. Required
	// with a bootstrap token.
	KubernetesUID func(ctx context.Context) (string, error)
	// Hub is a client that sends no token.
	Hub distributorv1connect.DistributorServiceClient
	// HubKeys are the keys by which an agent that is dialled initially recognises the hub. Empty:
	// the agent is not dialled.
	HubKeys []ed25519.PublicKey
	// FetchHubKeys requests the keys with which the hub signs. If HubKeys is not empty, it is
	// called with each new access token.
	FetchHubKeys func(ctx context.Context) ([]ed25519.PublicKey, error)
	Logger       *slog.Logger
}

// Identity is the agent's identity at the hub: a private key, and the access tokens that it is
// exchanged for. It enrols the agent when a token is first needed. It is safe for concurrent use.
type Identity struct {
	params   IdentityParams
	renewals *flight.Group[struct{}, struct{}] // the one key: both tokens are renewed together

	enrolled  wake.Signal // one token when the disk's content changed
	complaint sync.Once   // about the keep

	mu       sync.Mutex
	key      ed25519.PrivateKey
	state    identityState
	token    string    // for the distributor
	tunnel   string    // for the tunnel; always renewed together with token
	renew    time.Time // when the token should be replaced
	expires  time.Time
	rejected time.Time // when the hub last rejected the key permanently
	reason   error     // the error of that rejection
	paused   time.Time // no request to the hub before that time
	pause    error     // the hub's error that demanded it
}

var _ identity.TokenSource = (*Identity)(nil)

// identityState is the hub's answer about the agent.
type identityState struct {
	Cluster    string `json:"cluster"`
	ClusterUID string `json:"cluster_uid"`
	TunnelURL  string `json:"tunnel_url,omitempty"`
	// JoinToken is the hash of the last used join token, so that the agent does not use it again.
	JoinToken string `json:"join_token_sha256"`
	// EnrolledAt shows which of two identities is newer.
	EnrolledAt time.Time `json:"enrolled_at,omitzero"`
	// HubKeys are the hub's keys in its latest answer. HubKeysGiven are the configured keys at that
	// time: when the configuration changes, the new configuration takes precedence.
	HubKeys      []ed25519.PublicKey `json:"hub_keys,omitempty"`
	HubKeysGiven []ed25519.PublicKey `json:"hub_keys_given,omitempty"`
}

// OpenIdentity reads key and identity from the data directory, and creates a key if it is missing.
func OpenIdentity(p IdentityParams) (*Identity, error) {
	key, err := readKey(filepath.Join(p.Dir, keyFile))
	if err != nil {
		return nil, err
	}
	i := &Identity{params: p, key: key, renewals: flight.New[struct{}, struct{}](callTimeout), enrolled: wake.NewSignal()}
	content, err := os.ReadFile(filepath.Join(p.Dir, identityFile))
	if errors.Is(err, fs.ErrNotExist) {
		return i, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read identity: %w", err)
	}
	if err := json.Unmarshal(content, &i.state); err != nil {
		return nil, fmt.Errorf("read %s: %w", identityFile, err)
	}
	return i, nil
}

// Cluster returns the cluster's name, or "" before enrolment.
func (i *Identity) Cluster() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.state.Cluster
}

// ClusterUID returns the uid that the hub gave the cluster, or "" before enrolment.
func (i *Identity) ClusterUID() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.state.ClusterUID
}

// TunnelURL returns the tunnel's base URL in the hub's latest answer, or "" if it is unknown.
func (i *Identity) TunnelURL() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.state.TunnelURL
}

// Token returns an access token for the distributor. It requests a new one after about two thirds
// of the old one's life. While the hub cannot be reached, it returns the old one until that
// expires.
func (i *Identity) Token(ctx context.Context) (string, error) {
	return i.tokenFor(ctx, func() string { return i.token })
}

// ForTunnel returns the source of tokens for the tunnel. They are obtained together with those for
// the distributor.
func (i *Identity) ForTunnel() *TunnelTokens { return &TunnelTokens{identity: i} }

// TunnelTokens is the source of an agent's tokens for the tunnel.
type TunnelTokens struct {
	identity *Identity
}

// Token returns an access token for the tunnel, as [Identity.Token] does for the distributor.
func (t *TunnelTokens) Token(ctx context.Context) (string, error) {
	return t.identity.tokenFor(ctx, func() string { return t.identity.tunnel })
}

// Renew calls [Identity.Renew].
func (t *TunnelTokens) Renew(ctx context.Context) error { return t.identity.Renew(ctx) }

// Invalidate calls [Identity.Invalidate].
func (t *TunnelTokens) Invalidate() { t.identity.Invalidate() }

// tokenFor returns the token that which reads. It calls which with the lock held.
func (i *Identity) tokenFor(ctx context.Context, which func() string) (string, error) {
	token, good, fresh := i.current(which)
	if fresh {
		return token, nil
	}
	err := i.Renew(ctx)
	if err != nil && good && ctx.Err() == nil {
		return token, nil
	}
	token, _, _ = i.current(which)
	return token, err
}

// Renew requests new tokens now, and with them what else the hub returns, such as the tunnel's URL.
// If it fails, the agent keeps what it has.
func (i *Identity) Renew(ctx context.Context) error {
	_, err := i.renewals.Do(ctx, struct{}{}, func(ctx context.Context) (struct{}, error) { return struct{}{}, i.refresh(ctx) })
	return err
}

// Invalidate drops a token that the hub no longer accepts.
func (i *Identity) Invalidate() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.token, i.tunnel, i.renew, i.expires = "", "", time.Time{}, time.Time{}
}

// checkAnswer drops a token that the hub does not accept, so that the next call requests a new one.
// It returns the call's error.
func (i *Identity) checkAnswer(err error) error {
	if err != nil && connect.CodeOf(err) == connect.CodeUnauthenticated {
		i.Invalidate()
	}
	return err
}

func (i *Identity) current(which func() string) (token string, good, fresh bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := time.Now()
	return which(), now.Before(i.expires), now.Before(i.renew)
}

// refresh obtains a token, unless the hub recently refused to issue one. It runs once at a time.
func (i *Identity) refresh(ctx context.Context) error {
	if err := i.recentRejection(); err != nil {
		return err
	}
	err := i.obtain(ctx)
	i.deferRequests(err)
	return err
}

// deferRequests records that the hub asked the agent to wait. Otherwise each of the agent's calls,
// all of which need a token, would send another request.
func (i *Identity) deferRequests(err error) {
	delay, ok := rpcerr.RetryDelay(err)
	if !ok {
		return
	}
	wait := backoff.Policy{Initial: delay}.After(rpcerr.Paced(err), 0)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.paused, i.pause = time.Now().Add(wait), err
}

// obtain enrols if necessary and exchanges an assertion for a token.
func (i *Identity) obtain(ctx context.Context) error {
	if i.Cluster() == "" {
		if err := i.enrol(ctx); err != nil {
			return err
		}
	}
	err := i.trade(ctx)
	if rpcerr.ReasonOf(err) != errorsv1.Reason_REASON_CLUSTER_KEY_REJECTED {
		return err
	}
	if !i.canEnrol() {
		return i.reject(ctx, err)
	}
	i.params.Logger.WarnContext(ctx, "hub rejects the key, enrolling again", slog.Any("error", err))
	if err := i.replaceKey(); err != nil {
		return err
	}
	if err := i.enrol(ctx); err != nil {
		return err
	}
	return i.trade(ctx)
}

func (i *Identity) recentRejection() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if time.Since(i.rejected) < rejectedPause {
		return i.reason
	}
	if time.Now().Before(i.paused) {
		return i.pause
	}
	return nil
}

// reject records that only a person can resolve the error, and logs it once.
func (i *Identity) reject(ctx context.Context, err error) error {
	i.mu.Lock()
	first := i.reason == nil
	i.rejected, i.reason = time.Now(), err
	i.mu.Unlock()
	if first {
		i.params.Logger.ErrorContext(ctx, "hub does not accept this agent, a person has to give it a join token or do what the error says", slog.Any("error", err))
	}
	return err
}

// canEnrol reports whether the agent has a join token that it has not used yet.
func (i *Identity) canEnrol() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.params.JoinToken != "" && i.state.JoinToken != hash(i.params.JoinToken)
}

func (i *Identity) enrol(ctx context.Context) error {
	if !i.canEnrol() {
		return i.reject(ctx, errNotEnrolled)
	}
	public, _ := i.key.Public().(ed25519.PublicKey)
	request := &distributorv1.EnrollRequest{JoinToken: i.params.JoinToken, PublicKey: public, AgentVersion: app.Version()}
	if identity.IsBootstrapToken(i.params.JoinToken) {
		uid, err := i.params.KubernetesUID(ctx)
		if err != nil {
			return fmt.Errorf("enrol with a bootstrap token: %w", err)
		}
		request.ClusterName, request.KubernetesUid = i.params.ClusterName, uid
	}
	response, err := i.params.Hub.Enroll(ctx, request)
	if isRefusal(rpcerr.ReasonOf(err)) {
		return i.reject(ctx, fmt.Errorf("enrol: %w", err))
	}
	if err != nil {
		return fmt.Errorf("enrol: %w", err)
	}
	i.params.Logger.InfoContext(ctx, "enrolled", slog.String("leat.cluster", response.GetCluster()))
	return i.remember(identityState{
		Cluster: response.GetCluster(), ClusterUID: response.GetClusterUid(), TunnelURL: response.GetTunnelUrl(),
		JoinToken: hash(i.params.JoinToken), EnrolledAt: time.Now().UTC(),
	})
}

// isRefusal reports whether the hub refused to enrol the agent for a reason that only a person can
// remove.
func isRefusal(why errorsv1.Reason) bool {
	switch why {
	case errorsv1.Reason_REASON_JOIN_TOKEN_INVALID, errorsv1.Reason_REASON_BOOTSTRAP_TOKEN_SPENT, errorsv1.Reason_REASON_CLUSTER_NAME_REFUSED,
		errorsv1.Reason_REASON_CLUSTER_NAME_TAKEN, errorsv1.Reason_REASON_CLUSTER_ENROLLED:
		return true
	default:
		return false
	}
}

// trade obtains an access token.
func (i *Identity) trade(ctx context.Context) error {
	assertion, err := identity.SignAssertion(i.key, i.Cluster())
	if err != nil {
		return err
	}
	response, err := i.params.Hub.RefreshToken(ctx, &distributorv1.RefreshTokenRequest{Assertion: assertion})
	if err != nil {
		return fmt.Errorf("refresh access token: %w", err)
	}
	now, expires := time.Now(), response.GetExpireTime().AsTime()
	i.mu.Lock()
	i.token, i.expires = response.GetAccessToken(), expires
	// A hub of an earlier release issues one token for both.
	i.tunnel = cmp.Or(response.GetTunnelToken(), response.GetAccessToken())
	i.renew = now.Add(backoff.Jitter(expires.Sub(now)*2/3, renewJitter))
	i.rejected, i.reason = time.Time{}, nil
	state := i.state
	i.mu.Unlock()
	before := state
	state.TunnelURL = response.GetTunnelUrl()
	i.learnHubKeys(ctx, &state)
	if state.TunnelURL == before.TunnelURL && sameKeys(state.HubKeys, before.HubKeys) && sameKeys(state.HubKeysGiven, before.HubKeysGiven) {
		return nil
	}
	return i.remember(state)
}

func (i *Identity) remember(state identityState) error {
	content, err := json.Marshal(state)
	if err != nil {
		return fmt.Errorf("encode identity: %w", err)
	}
	i.mu.Lock()
	i.state = state
	i.mu.Unlock()
	if err := writeFile(filepath.Join(i.params.Dir, identityFile), content); err != nil {
		return err
	}
	i.enrolled.Set()
	return nil
}

// replaceKey creates a new key: a revoked key stays revoked.
func (i *Identity) replaceKey() error {
	key, err := makeKey(filepath.Join(i.params.Dir, keyFile))
	if err != nil {
		return err
	}
	i.mu.Lock()
	i.key = key
	i.mu.Unlock()
	return nil
}

func hash(joinToken string) string {
	sum := sha256.Sum256([]byte(joinToken))
	return hex.EncodeToString(sum[:])
}

func readKey(path string) (ed25519.PrivateKey, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return makeKey(path)
	}
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, fmt.Errorf("read key: %s does not contain PEM", path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("read key: %s holds a %T, want an Ed25519 key", path, parsed)
	}
	return key, nil
}

// makeKey stores the key before anybody uses it: an agent that ends right after enrolling must
// still have it.
func makeKey(path string) (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return key, writeFile(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}))
}
