// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/services/agent/internal/health"
)

// Judge gives the verdict on a live object.
func (e *Engine) Judge(o *unstructured.Unstructured) health.Verdict {
	return health.Of(o)
}
