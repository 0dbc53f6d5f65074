// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package cloudvalues

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/leatdev/leat/internal/runtime/cloud"
	"github.com/leatdev/leat/services/distributor/internal/config/configs"
)

// maxAnswer bounds an answer: the largest secret, of 64 KiB at AWS, as JSON, in which a character
// may take six bytes.
const maxAnswer = 6*64<<10 + 16<<10

// kept is a credential, for a while.
type kept[T any] struct {
	mu    sync.Mutex
	value T
	until time.Time
}

// get returns the kept credential, or asks for one. One caller asks at a time.
func (k *kept[T]) get(ask func() (T, time.Time, error)) (T, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Now().Before(k.until) {
		return k.value, nil
	}
	value, ends, err := ask()
	if err != nil {
		return value, err
	}
	k.value, k.until = value, time.Now().Add(sessionLife)
	if half := time.Now().Add(time.Until(ends) / 2); !ends.IsZero() && half.Before(k.until) {
		k.until = half
	}
	return value, nil
}

func (k *kept[T]) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.until = time.Time{}
}

// serviceError is a refusal of a secret manager itself, and not of what signs in.
type serviceError struct{ cause *cloud.Error }

// Error implements error.
func (e *serviceError) Error() string { return e.cause.Error() }

// Unwrap returns the error of package cloud.
func (e *serviceError) Unwrap() error { return e.cause }

// do makes one call of a secret manager, and reads its answer, which is JSON.
func do(ctx context.Context, call cloud.Call, req *http.Request, answer any) error {
	call.MaxAnswer = maxAnswer
	data, _, err := call.Do(ctx, req)
	if err == nil {
		err = call.Decode(req.URL, data, answer)
	}
	if e, ok := errors.AsType[*cloud.Error](err); ok {
		return &serviceError{e}
	}
	return err
}

// The clouds' codes for refusals, beyond their statuses.
var (
	absent    = []string{"ResourceNotFoundException", "SecretNotFound", "NOT_FOUND"}
	withdrawn = []string{"InvalidRequestException", "FAILED_PRECONDITION", "SecretDisabled"}
	throttled = []string{"ThrottlingException", "Throttling", "TooManyRequestsException", "RequestLimitExceeded", "RESOURCE_EXHAUSTED"}
	signedOut = []string{"UnrecognizedClientException", "ExpiredTokenException", "ExpiredToken", "InvalidSignatureException", "InvalidClientTokenId", "UNAUTHENTICATED"}
	denied    = []string{"AccessDeniedException", "DecryptionFailure", "PERMISSION_DENIED"}
)

// isSignInRefused reports whether a secret manager does not accept what signs in.
func isSignInRefused(err error) bool {
	e, ok := errors.AsType[*serviceError](err)
	return ok && (e.cause.Status == http.StatusUnauthorized || slices.Contains(signedOut, e.cause.Code))
}

// asAnswer returns an error of a secret manager as [configs.Backend] has it. A cloud's message
// about a secret may hold the secret's name, which the reference shows, and never its value.
func asAnswer(err error) error {
	e, ok := errors.AsType[*cloud.Error](err)
	if !ok {
		return err
	}
	if e.Kind == cloud.RateLimited || slices.Contains(throttled, e.Code) {
		return &configs.ThrottledError{After: e.RetryAfter}
	}
	if _, isService := errors.AsType[*serviceError](err); !isService {
		return err // the credential was refused, which proves nothing about the secret
	}
	switch {
	case e.Status == http.StatusNotFound || slices.Contains(absent, e.Code):
		return &configs.NotFoundError{}
	case slices.Contains(withdrawn, e.Code):
		return &configs.NotFoundError{Detail: "it is disabled, or marked to be deleted"}
	case isSignInRefused(err):
		return errors.New("the cloud does not accept what the hub signed in with")
	case e.Status == http.StatusForbidden || slices.Contains(denied, e.Code):
		return &configs.DeniedError{Detail: strings.TrimSpace(e.Code)}
	}
	return err
}

// noName is the answer for a path that cannot be the name of a secret.
func noName(of string) error {
	return &configs.NotFoundError{Detail: "the path is not a name of a secret of " + of}
}
