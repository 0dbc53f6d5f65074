// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package casmem_test

import (
	"testing"

	"github.com/leatdev/leat/internal/contract/cas"
	"github.com/leatdev/leat/internal/contract/cas/casmem"
	"github.com/leatdev/leat/internal/contract/cas/castest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	castest.Run(t, func(testing.TB) cas.Store {
		return casmem.New(casmem.Config{MaxContentBytes: castest.MaxContentBytes})
	})
}
