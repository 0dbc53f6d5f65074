// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"strconv"
	"strings"

	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/services/distributor/internal/catalog"
)

const modePrefix = "VERIFICATION_MODE_"

func verificationOf(v *gitcachev1.Verification) catalog.Verification {
	if v == nil {
		return catalog.Verification{}
	}
	return catalog.Verification{Mode: verificationModeOf(v.GetMode()), PGPKeys: v.GetPgpKeys(), SSHAllowedSigners: v.GetSshAllowedSigners()}
}

// verificationModeOf returns the mode of a message. An unknown value passes by its number, for
// validation to refuse, and so does a message without a mode.
func verificationModeOf(m gitcachev1.VerificationMode) catalog.VerificationMode {
	switch m {
	case gitcachev1.VerificationMode_VERIFICATION_MODE_COMMIT:
		return catalog.VerifyCommit
	case gitcachev1.VerificationMode_VERIFICATION_MODE_TAG:
		return catalog.VerifyTag
	case gitcachev1.VerificationMode_VERIFICATION_MODE_TAG_AND_COMMIT:
		return catalog.VerifyTagAndCommit
	default:
		return catalog.VerificationMode(strconv.Itoa(int(m)))
	}
}

func verificationMessage(v catalog.Verification) *gitcachev1.Verification {
	if v.Mode == catalog.VerifyNothing {
		return nil
	}
	return &gitcachev1.Verification{
		Mode:    gitcachev1.VerificationMode(gitcachev1.VerificationMode_value[modePrefix+strings.ToUpper(string(v.Mode))]),
		PgpKeys: v.PGPKeys, SshAllowedSigners: v.SSHAllowedSigners,
	}
}
