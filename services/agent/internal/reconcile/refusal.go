// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"

	"github.com/leatdev/leat/internal/reason"
)

// Refuse is why a service is left as it is whose policy this agent does not understand: what is not understood may be what
// keeps something from being overwritten or deleted.
func Refuse(err error) *reason.Problem {
	return reason.Errorf(reason.Unimplemented, "the service is left as it is, because this agent does not understand its policy; upgrade the agent: spec.policy.%v", err)
}

// understand ends a run of a service that cannot be kept as it was asked for.
func (r *run) understand(context.Context) error {
	if r.service.Refused != nil {
		return r.service.Refused
	}
	if err := r.rules.Err(); err != nil {
		return Refuse(err)
	}
	return nil
}
