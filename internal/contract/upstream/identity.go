// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"cmp"
	"regexp"

	"github.com/leatdev/leat/internal/kit/fielderr"
)

// The forms of what names an identity at a cloud. Some of it becomes a part of a host or a path.
var (
	awsRole     = regexp.MustCompile(`^arn:aws[a-z-]*:iam::[0-9]{12}:role/[\w+=,.@/-]{1,576}$`)
	awsRegion   = regexp.MustCompile(`^[a-z]{2,4}(-[a-z]+)+-[0-9]{1,2}$`)
	gcpAccount  = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{0,100}@[a-z0-9.-]{1,150}$`)
	gcpProvider = regexp.MustCompile(`^projects/[0-9]{1,20}/locations/global/workloadIdentityPools/[a-z0-9-]{1,64}/providers/[a-z0-9-]{1,64}$`)
	azureID     = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
	azureTenant = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]{0,250}$`)
)

// CheckWorkloadIdentity returns nil if the fields of a workload identity have the form that its cloud
// gives them. Whether the cloud knows them is not checked. The error is a *fielderr.Error with a path
// below the method.
func (c Credential) CheckWorkloadIdentity() error {
	switch c.Cloud {
	case CloudAWS:
		return cmp.Or(
			form("principal", c.Principal, awsRole, "the ARN of a role, such as arn:aws:iam::123456789012:role/leat"),
			form("scope", c.Scope, awsRegion, "a region, such as eu-central-1"))
	case CloudGCP:
		return cmp.Or(
			form("principal", c.Principal, gcpAccount, "the email of a service account"),
			form("scope", c.Scope, gcpProvider, "projects/NUMBER/locations/global/workloadIdentityPools/POOL/providers/PROVIDER"))
	case CloudAzure:
		return cmp.Or(
			form("principal", c.Principal, azureID, "the client's id, a UUID"),
			form("scope", c.Scope, azureTenant, "the tenant's id or domain"))
	}
	return fielderr.New("provider", "must be aws, gcp or azure")
}

// form returns an error for a text that is there and has another form.
func form(field, text string, want *regexp.Regexp, name string) error {
	if text == "" || want.MatchString(text) {
		return nil
	}
	return fielderr.New(field, "must be %s, or empty", name)
}

// validateWorkloadIdentity checks what a definition may not choose beside an identity that is not its
// author's: who passes for the registry, and who else gets the login.
func (d Definition) validateWorkloadIdentity(field string) error {
	switch {
	case d.Type != TypeOCI:
		return fielderr.New(field, "is for OCI repositories")
	case d.CAPEM != "":
		return fielderr.New("ca_pem", "must be empty with workload_identity, because the login of gitcache's own identity goes only to servers that the "+
			"system trusts; an operator can put both into gitcache-credentials-file")
	case d.TokenHosts != "":
		return fielderr.New("token_hosts", "must be empty with workload_identity, whose login goes to the registry alone")
	}
	return nil
}
