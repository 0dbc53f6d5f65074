-- SPDX-FileCopyrightText: The Leat Authors
-- SPDX-License-Identifier: Apache-2.0
--
-- Finds the derived services of which people asked something, or that departed, among millions: a hub that starts needs these at
-- once, and reads the reports of the others later.

CREATE INDEX derived_services_requested ON derived_services (uid)
    WHERE sync_request <> '' OR exception NOT IN ('', 'null') OR departure NOT IN ('', 'null');
