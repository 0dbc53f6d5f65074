// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package keyroot

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/runtime/cloud"
)

const (
	// kmsTimeout bounds wrapping or unwrapping one key, with the sign-in before it.
	kmsTimeout = 30 * time.Second
	// maxWrapped bounds a wrapped key that is sent to a service. The largest has some 400 bytes.
	maxWrapped = 16 << 10
)

// KMS is a root that is a key of a cloud's key management service. The key never leaves it.
type KMS struct {
	name, hub string
	timeout   time.Duration
	service   kmsService
}

var _ Root = (*KMS)(nil)

// kmsService is the key of one cloud. A key that it encrypts for one binding it decrypts for no
// other. It returns the errors of [Root].
type kmsService interface {
	encrypt(ctx context.Context, key []byte, to binding) ([]byte, error)
	decrypt(ctx context.Context, wrapped []byte, to binding) ([]byte, error)
}

var hubName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// NewKMS returns the root that is a key. It calls nothing yet.
func NewKMS(p KMSParams) (*KMS, error) {
	if p.Hub != "" && !hubName.MatchString(p.Hub) {
		return nil, fmt.Errorf("got hub %.100q, want up to 63 letters, digits, dots, underscores and hyphens", p.Hub)
	}
	k := &KMS{hub: p.Hub, timeout: p.Timeout}
	if k.timeout == 0 {
		k.timeout = kmsTimeout
	}
	var err error
	switch {
	case strings.HasPrefix(p.Key, "arn:"):
		k.service, err = newAWS(p)
		k.name = "aws/" + p.Key
	case strings.HasPrefix(p.Key, "projects/"):
		k.service, err = newGoogle(p)
		k.name = "google/" + p.Key
	case strings.Contains(p.Key, "://"):
		var key *azureKey
		if key, err = newAzure(p); err == nil {
			k.service, k.name = key, "azure/"+key.host+"/"+key.name
		}
	default:
		err = fmt.Errorf("got %.200q, want a key's ARN (AWS), projects/… (Google Cloud) or https://… (Azure)", p.Key)
	}
	if err != nil {
		return nil, err
	}
	if p.Hub != "" {
		k.name += "#" + p.Hub
	}
	return k, nil
}

// Name implements [Root].
func (k *KMS) Name() string { return k.name }

// Wrap implements [Root].
func (k *KMS) Wrap(ctx context.Context, key []byte, place string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	wrapped, err := k.service.encrypt(ctx, key, k.bind(place))
	if err != nil {
		return nil, fmt.Errorf("wrap by %s: %w", k.name, err)
	}
	if len(wrapped) == 0 || len(wrapped) > maxWrapped {
		return nil, fmt.Errorf("wrap by %s: %w: its answer contains no wrapped key", k.name, ErrUnavailable)
	}
	return wrapped, nil
}

// Unwrap implements [Root].
func (k *KMS) Unwrap(ctx context.Context, wrapped []byte, place string) ([]byte, error) {
	if len(wrapped) == 0 || len(wrapped) > maxWrapped {
		return nil, fmt.Errorf("unwrap by %s: %w: it has %d bytes", k.name, ErrRefused, len(wrapped))
	}
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	key, err := k.service.decrypt(ctx, wrapped, k.bind(place))
	if err != nil {
		return nil, fmt.Errorf("unwrap by %s: %w", k.name, err)
	}
	return key, nil
}

func (k *KMS) bind(place string) binding {
	b := binding{"leat-place": place}
	if k.hub != "" {
		b["leat-hub"] = k.hub
	}
	return b
}

// verdict is the meaning of a failure for a root.
type verdict int

const (
	// unknown is an answer that may not change: the root fails.
	unknown verdict = iota
	away
	slowDown
	denied
	disabled
	absent
	foreign
)

// verdicts maps the three clouds' names of failures. Google and Azure do not use names for all of
// them, and AWS answers status 400 to most.
var verdicts = map[string]verdict{
	"AccessDeniedException": denied, "UnrecognizedClientException": denied, "ExpiredTokenException": denied,
	"InvalidSignatureException": denied, "IncompleteSignatureException": denied, "MissingAuthenticationTokenException": denied,
	"DisabledException": disabled, "KMSInvalidStateException": disabled,
	"InvalidCiphertextException": foreign, "IncorrectKeyException": foreign,
	"NotFoundException": absent, "InvalidKeyUsageException": absent, "InvalidArnException": absent,
	"ThrottlingException": slowDown, "LimitExceededException": slowDown,
	"CustomKeyStoreInvalidStateException": away,

	"PERMISSION_DENIED": denied, "UNAUTHENTICATED": denied, "FAILED_PRECONDITION": disabled, "NOT_FOUND": absent, "RESOURCE_EXHAUSTED": slowDown,

	"KeyDisabled": disabled, "KeyNotFound": absent,
}

// judge returns what an answer means. Opening means that a key was to be decrypted: then a request
// that is refused as such is about that key.
func judge(e *cloud.Error, opening bool) verdict {
	known, ok := verdicts[e.Code]
	switch {
	case ok:
		return known
	case e.Kind == cloud.Unreachable || e.Kind == cloud.Unusable:
		return away
	case e.Kind == cloud.RateLimited:
		return slowDown
	case e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden:
		return denied
	case e.Status == http.StatusNotFound:
		return absent
	case e.Status == http.StatusBadRequest && opening:
		return foreign
	}
	return unknown
}

// answered makes the error of a root of a call's. It repeats no word of the service, which has seen
// the key, but the name of the failure.
func answered(service string, err error, opening bool) error {
	e, ok := errors.AsType[*cloud.Error](err)
	if !ok {
		return err
	}
	said := fmt.Sprintf("%s answered %d %s", service, e.Status, e.Code)
	said = strings.TrimSpace(said)
	switch judge(e, opening) {
	case away:
		if e.Status != 0 {
			return fmt.Errorf("%w: %s", ErrUnavailable, said)
		}
		return fmt.Errorf("%w: %w", ErrUnavailable, e)
	case slowDown:
		return fmt.Errorf("%w: %s, which asks to slow down", ErrUnavailable, said)
	case denied:
		return fmt.Errorf("%w: %s; give the distributor's identity the right to encrypt and decrypt with the key", ErrUnavailable, said)
	case disabled:
		return fmt.Errorf("%w: %s; enable the key", ErrUnavailable, said)
	case absent:
		return fmt.Errorf("%s; does the key exist, and is it one that encrypts", said)
	case foreign:
		return fmt.Errorf("%w: %s", ErrRefused, said)
	case unknown:
	}
	return errors.New(said)
}
