// Which path shows which page. Every page but the way in is loaded when it is
// first asked for.

import { lazy, Suspense, useEffect, type ReactNode } from "react";
import { Route, Routes } from "react-router";
import { onFactorMissing, onSignedOut } from "../api/client";
import { useProofWanted } from "../api/proof";
import { keys, queries } from "../api/queries";
import { keepFocus } from "../lib/keep-focus";
import { SignIn } from "../pages/entrance/SignIn";
import { Banner } from "./Banner";
import { AdminOnly, SignedIn } from "./Gate";
import { Layout } from "./Layout";

const Bootstrap = lazy(async () => ({ default: (await import("./rare")).Bootstrap }));
const SignUp = lazy(async () => ({ default: (await import("./rare")).SignUp }));
const ProofDialog = lazy(async () => ({ default: (await import("./rare")).ProofDialog }));
const Proved = lazy(async () => ({ default: (await import("./rare")).Proved }));
const VmsPage = lazy(() => import("../pages/vms/VmsPage"));
const VmPage = lazy(() => import("../pages/vm/VmPage"));
const DisksPage = lazy(() => import("../pages/disks/DisksPage"));
const OffersPage = lazy(() => import("../pages/offers/OffersPage"));
const AccountPage = lazy(() => import("../pages/account/AccountPage"));
const OverviewPage = lazy(() => import("../pages/admin/OverviewPage"));
const UsersPage = lazy(() => import("../pages/admin/UsersPage"));
const AllVmsPage = lazy(() => import("../pages/admin/AllVmsPage"));
const AllVolumesPage = lazy(() => import("../pages/admin/AllVolumesPage"));
const SessionsPage = lazy(() => import("../pages/admin/SessionsPage"));
const ImagesPage = lazy(() => import("../pages/admin/ImagesPage"));
const AdminOffersPage = lazy(() => import("../pages/admin/OffersPage"));
const InvitesPage = lazy(() => import("../pages/admin/InvitesPage"));
const PlatformPage = lazy(() => import("../pages/admin/PlatformPage"));
const NotFound = lazy(() => import("../pages/NotFound"));

/** A page without the frame of the others, which has to be loaded. */
const Rare = ({ page }: { page: ReactNode }) => <Suspense fallback={null}>{page}</Suspense>;

export function App() {
  useEffect(() => onSignedOut(() => queries.setQueryData(keys.me, null)), []);
  useEffect(() => onFactorMissing(() => void queries.invalidateQueries({ queryKey: keys.me })), []);
  useEffect(keepFocus, []);
  const proofWanted = useProofWanted();
  return (
    <>
      <Banner />
      {proofWanted !== null && (
        <Suspense fallback={null}>
          <ProofDialog wanted={proofWanted} />
        </Suspense>
      )}
      <Routes>
        <Route path="/sign-in" element={<SignIn />} />
        <Route path="/sign-up" element={<Rare page={<SignUp />} />} />
        <Route path="/bootstrap" element={<Rare page={<Bootstrap />} />} />
        <Route path="/proved" element={<Rare page={<Proved />} />} />
        <Route
          element={
            <SignedIn>
              <Layout />
            </SignedIn>
          }
        >
          <Route index element={<VmsPage />} />
          <Route path="vms/:name" element={<VmPage />} />
          <Route path="users/:owner/vms/:name" element={<VmPage />} />
          <Route path="disks" element={<DisksPage />} />
          <Route path="offers" element={<OffersPage />} />
          <Route path="account" element={<AccountPage />} />
          <Route path="admin/vms" element={<AllVmsPage />} />
          <Route path="admin/volumes" element={<AllVolumesPage />} />
          <Route path="admin/sessions" element={<SessionsPage />} />
          <Route path="admin" element={<AdminOnly />}>
            <Route index element={<OverviewPage />} />
            <Route path="users" element={<UsersPage />} />
            <Route path="images" element={<ImagesPage />} />
            <Route path="offers" element={<AdminOffersPage />} />
            <Route path="invites" element={<InvitesPage />} />
            <Route path="platform" element={<PlatformPage />} />
          </Route>
          <Route path="*" element={<NotFound />} />
        </Route>
      </Routes>
    </>
  );
}
