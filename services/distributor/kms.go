// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor

import (
	"errors"
	"fmt"
	"strings"

	"github.com/leatdev/leat/internal/runtime/cloud"
	"github.com/leatdev/leat/internal/runtime/config"
	"github.com/leatdev/leat/services/distributor/internal/keys/keyroot"
)

// kmsPrefix begins the flags of the distributor's identity at a cloud.
const kmsPrefix = "distributor"

// KMSConfig names keys of the key management services of clouds, and what the distributor is there.
type KMSConfig struct {
	// Keys are names of keys as their clouds write them. The first wraps, all unwrap. Empty: there is
	// no such root.
	Keys []string
	// Former means that the keys are only accepted: the other roots wrap.
	Former bool
	// Hub is a name that wrapped keys are bound to. It may be empty.
	Hub string
	// AzureAlgorithm is empty, RSA-OAEP-256 or A256KW.
	AzureAlgorithm string
	// AWSURL and GoogleURL are where the services are. Empty: where their clouds have them.
	AWSURL, GoogleURL string
	// GoogleProvider and GoogleAccount are a workload identity provider and a service account of
	// Google Cloud. Empty: the pod's own account, by the metadata server.
	GoogleProvider, GoogleAccount string
	// Identity is the pod's identity from the environment.
	Identity cloud.Config
}

func (c *KMSConfig) bind(s *config.Set) {
	s.Strings(&c.Keys, "distributor-sealing-kms-keys", nil,
		"keys of AWS KMS (ARN), Google Cloud KMS (projects/…) or Azure Key Vault (https://…) that are roots of the keys that seal; the first is used, all are accepted; empty: none")
	s.Bool(&c.Former, "distributor-sealing-kms-former", false,
		"only accept what those keys have wrapped, and wrap with the other roots: to stop using them")
	s.String(&c.Hub, "distributor-sealing-kms-hub", "",
		"name of this hub that wrapped keys are bound to, so that a hub of another name does not open them; policies of the cloud can require it")
	s.String(&c.AzureAlgorithm, "distributor-sealing-kms-azure-algorithm", "",
		"how Azure wraps, RSA-OAEP-256 or A256KW; empty: A256KW in a managed HSM, and else RSA-OAEP-256")
	s.Env(&c.AWSURL, "AWS_ENDPOINT_URL_KMS", "AWS KMS; empty: that of the key's region")
	s.String(&c.GoogleURL, "distributor-sealing-kms-google-url", "https://cloudkms.googleapis.com", "Google Cloud KMS")
	s.String(&c.GoogleProvider, "distributor-gcp-provider", "",
		"workload identity provider of Google Cloud that takes the pod's token, projects/NUMBER/locations/global/workloadIdentityPools/POOL/providers/PROVIDER; empty: the metadata server signs in")
	s.String(&c.GoogleAccount, "distributor-gcp-account", "", "service account of Google Cloud to act as; empty: the pod's own")
	c.Identity.Bind(s, kmsPrefix, "the distributor")
}

// open returns the roots. It calls nothing.
func (c *KMSConfig) open() ([]keyroot.Root, error) {
	if len(c.Keys) == 0 {
		return nil, nil
	}
	identity, err := cloud.New(cloud.Params{
		Config: c.Identity, Caller: "the distributor", Prefix: kmsPrefix, GoogleRole: "roles/cloudkms.cryptoKeyEncrypterDecrypter",
	})
	if err != nil {
		return nil, err
	}
	if err := cloud.CheckService("--distributor-sealing-kms-google-url", c.GoogleURL); err != nil {
		return nil, err
	}
	var roots []keyroot.Root
	var errs []error
	for _, key := range c.Keys {
		root, err := keyroot.NewKMS(keyroot.KMSParams{
			Key: key, Hub: c.Hub, AzureAlgorithm: c.AzureAlgorithm, AWSURL: c.AWSURL, GoogleURL: c.GoogleURL,
			GoogleProvider: c.GoogleProvider, GoogleAccount: c.GoogleAccount, Identity: identity,
		})
		if err == nil && strings.HasPrefix(key, "arn:") && !c.Identity.HasAWS() {
			err = errors.New("the pod has no identity at AWS: annotate the distributor's service account with eks.amazonaws.com/role-arn, or associate it with a role of EKS Pod Identity")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("--distributor-sealing-kms-keys, -hub and -azure-algorithm: %w", err))
			continue
		}
		roots = append(roots, root)
	}
	return roots, errors.Join(errs...)
}
